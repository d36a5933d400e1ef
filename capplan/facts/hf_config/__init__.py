"""Any Hugging Face ``config.json`` to an LLM's facts, as plain JSON, offline.

Read :mod:`spec` first: it is the whole way on one page. ``architectures`` counts parameters and
the cache, ``quantisation`` turns parameters into bytes, ``weights`` compares them with the files,
``heads`` counts drafting heads. ``fields``, ``parts``, ``json_file`` and ``plausible`` serve all.
A new architecture is added in ``architectures``; the method is in ``docs/method/configs.md``.
"""
