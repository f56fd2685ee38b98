from llm_on_llama import GuidedDecodingParams, KvCacheRetentionConfig

__all__ = ["GuidedDecodingParams", "KvCacheRetentionConfig"]
