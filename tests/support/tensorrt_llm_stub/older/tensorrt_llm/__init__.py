"""A stub of an older TensorRT-LLM: tensorrt_llm/llmapi/llm.py of 4c05a74891e4df8066f08ed4ce14b0972abe4e25."""

from llm_on_llama import LlamaLLM, SamplingParams

__all__ = ["LLM", "SamplingParams"]
__version__ = "older.stub"


class LLM(LlamaLLM):
    def generate_async(
        self,
        inputs,
        sampling_params=None,
        lora_request=None,
        prompt_adapter_request=None,
        streaming=False,
        kv_cache_retention_config=None,
        disaggregated_params=None,
        _postproc_params=None,
        scheduling_params=None,
        cache_salt=None,
    ):
        return self.begin(inputs, sampling_params, cache_salt)
