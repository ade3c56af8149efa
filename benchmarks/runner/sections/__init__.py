"""The measurements, each in interleaved, shuffled rounds."""
