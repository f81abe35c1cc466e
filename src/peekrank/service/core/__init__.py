"""The service in process: slots, commands, events, snapshots, audit and export."""
