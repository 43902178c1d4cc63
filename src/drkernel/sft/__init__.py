"""Supervised fine-tuning on multi-turn conversations.

    settings       what a run is configured by       conversations  files of chat rows
    chat_rows      messages -> token ids, targets    loop           batches -> loss -> update

Importing this package imports neither torch nor transformers.
"""
