"""Images, sounds and 3D models that are valid files, deterministic for a prompt, model and seed."""

from beacon_gpusim.core.media.content import Media, media_fields, media_of
from beacon_gpusim.core.media.spec import DEFAULT_MEDIA, Delivery, MediaKind, MediaSpec

__all__ = ["DEFAULT_MEDIA", "Delivery", "Media", "MediaKind", "MediaSpec", "media_fields", "media_of"]
