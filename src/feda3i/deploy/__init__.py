"""Set up and operate a consortium: keys, certificates, folders, checks, processes."""
