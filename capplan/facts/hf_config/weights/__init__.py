"""Bytes of a checkpoint's weights: files first, then a sane index, then the formula.

``read`` decides between the sources and explains differences. ``files`` finds the weight files
(and Git LFS pointers), ``header`` reads what a safetensors file says of its tensors, ``census``
sorts tensors into LLM, MTP layers, other modalities and what is stored without being loaded.
"""
