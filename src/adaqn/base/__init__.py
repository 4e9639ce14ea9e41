"""What every room uses: errors, checks, files, plug-ins, output."""
