"""Doors for other people's loops: rewards for verl and TRL, and a Gymnasium-style environment.

    reward       compute_score (verl's signature), KernelReward (TRL's reward_funcs)
    environment  KernelEnv: reset and step over text
    grading      an answer to a reward, which both are made of
    judging      a gym for code that is not asynchronous

None of verl, TRL and gymnasium is imported. A fault of the gym is never a zero: verl's function
raises, TRL's says None, the environment truncates the episode with a NaN.
"""
