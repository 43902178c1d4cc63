"""The queue: a lease protocol in Lua on a stock Valkey or Redis, and the server it runs on."""
