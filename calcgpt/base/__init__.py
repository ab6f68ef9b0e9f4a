"""What every package needs: errors of a user, files, processes, progress, plug-ins, extras."""
