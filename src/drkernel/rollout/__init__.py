"""Playing episodes: one turn after another, many episodes at once, each turn kept as it ends.

`settings` says how; `episode` plays one; `engine` plays many; `log` keeps them; `evaluator` is the
way to a gym; `directory` is the run on disk. Importing this package imports no torch.
"""
