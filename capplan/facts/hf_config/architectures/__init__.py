"""What a configuration says of an LLM's network: parameters by part, cache by layer, context.

``read`` is the entrance, ``registry`` says which reader counts which model type. A reader turns
fields into a ``network`` of layers; most are a ``recipe``, data that ``families/dense`` and
``families/sparse`` list. To add an architecture: one line there if it differs by switches,
a function in a module of ``families`` if its layers differ, then its source in
``tests/reference/test_config_counts.py``. What no field states is refused, never guessed.
"""
