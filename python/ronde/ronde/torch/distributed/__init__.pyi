"""Importing it registers the backend `ronde` of torch.distributed."""
