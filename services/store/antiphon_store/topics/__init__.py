"""The parts of StoreService, one for each topic of the ports."""
