"""From parameters to bytes under the quantisation settings of a checkpoint.

``weigh`` is the entrance. ``schemes`` has one reader for each ``quant_method`` (add a new one to
its table), ``groups`` those with several formats in one checkpoint, ``formats`` the bytes of a
weight with its scales. ``matrices`` names the matrices of a part as settings do, and
``module_names`` matches lists of names, so that parts left in 16 bit are found.
"""
