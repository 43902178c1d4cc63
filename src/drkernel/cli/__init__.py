"""The command line of drkernel: one verb a file, imported when it is called."""
