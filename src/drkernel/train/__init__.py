"""The embedded trainer: one process, one GPU or a CPU, on torch and transformers.

    models      model and tokenizer, what has to be there     rows        texts with their targets
    batches     rows packed for one forward pass              forward     log-probabilities
    optimizer   AdamW, schedule, clipping, skipping           checkpoint  whole states, atomically
    loop        rollout -> reward -> return -> advantage -> filter -> update

Importing this package imports neither torch nor transformers. Not covered: several GPUs, which is
what the verl plug-in is for.
"""
