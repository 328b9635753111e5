"""L3: tensors, conversion, autograd, dispatch and overrides; a folder for each."""
