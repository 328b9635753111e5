"""Files of ``torch.save``, read and written."""
