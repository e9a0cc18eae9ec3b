"""What one stranger's connection can do to real processes while an honest client goes on."""
