"""The network engine: the same round loop and the same stations, with Flower between them.

Only this package imports ``flwr`` (extra ``feda3i[flower]``); everything else works without it.
Flower's words (client, node, message) stay in here.
"""
