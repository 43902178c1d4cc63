"""Training runs side by side: the paper's comparison in miniature, as figures and claims.

    runs     training runs by arm and seed; evaluations and scaling runs of their checkpoints
    curves   one metric by step over the seeds of an arm; whether it was still rising
    claims   what the paper says, what is seen here, and whether that agrees
    figures  figures shaped like the paper's 2, 4, 5, 6, 7 and 8
    writing  tables, page and files

Everything is read from run directories: nothing is played, judged or trained, and no torch is
imported. The protocol (which runs, which metric, which seeds) is in ``docs/reproduction.md``.
"""
