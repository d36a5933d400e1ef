"""The architectures themselves, by model type: one table a module, all joined in ``registry``.

``dense`` and ``sparse`` hold recipes. The other modules hold functions from fields to a network,
for families whose layers a recipe cannot describe: ``latent`` (MLA), ``hybrid`` and
``state_space`` (constant state), ``gpt`` (older field names), ``flat`` (multimodal files that
are no nest), and one module a vendor.
"""
