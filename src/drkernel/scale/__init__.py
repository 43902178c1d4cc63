"""Sequential test-time scaling: many turns on one task, and what they are worth.

`arms` are ways to remember earlier turns, played from the same first turns; `choosing` picks a
candidate without knowing the right answer; `budgets` sets sequential turns beside parallel samples;
`gains` asks who gains; `running` does it all.
"""
