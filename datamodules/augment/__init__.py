"""Second views of texts, and views of images: `augment=NAME`, the names of `conf/augment/`."""
