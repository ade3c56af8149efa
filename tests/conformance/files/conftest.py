from tests.fixtures.file_stores import s3_url, store, store_url

__all__ = ["s3_url", "store", "store_url"]
