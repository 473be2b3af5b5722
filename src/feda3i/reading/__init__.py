"""Read images and masks: find pairs of files in folders, decode them, say what is wrong."""
