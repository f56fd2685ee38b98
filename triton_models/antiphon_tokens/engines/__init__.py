"""The engines, one file each. A file imports the library of its engine when a model is loaded, and not before."""
