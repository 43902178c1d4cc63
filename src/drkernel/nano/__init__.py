"""``nano``: a small policy of our own, from nothing, on trajectories of the scripted teacher.

    tokenizer  byte-level BPE, trained on the trajectories    model  the architecture, from a seed
    recipe     data -> tokenizer -> training -> folder        card   what the folder says of itself

A model of Qwen3's architecture with at most eight million parameters: small enough to be trained
in minutes and to stand in for a large one wherever the machinery is what is looked at. It knows the
synthetic families and nothing else. Importing this package imports neither torch nor transformers.
"""
