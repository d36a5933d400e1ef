"""Can this draft work for this target: vocabularies, engines, sizes, contexts, licences."""
