"""Every reader of outside files, fed with broken ones: by atheris here, by hypothesis in tests."""
