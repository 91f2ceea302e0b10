"""The numbers of a page, without a word about them and without a picture."""
