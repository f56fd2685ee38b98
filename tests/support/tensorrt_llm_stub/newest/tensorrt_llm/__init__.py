"""A stub of TensorRT-LLM with the signatures of its newest sources: `generate_async` has `conversation_params` and
`priority` (tensorrt_llm/conversation_params.py of 30d2c50cffa7cb02284d339c0caa335431df007b)."""

from llm_on_llama import LlamaLLM, SamplingParams

__all__ = ["LLM", "SamplingParams"]
__version__ = "newest.stub"


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
        trace_headers=None,
        _postproc_params=None,
        scheduling_params=None,
        conversation_params=None,
        cache_salt=None,
        priority=0.5,
    ):
        return self.begin(inputs, sampling_params, cache_salt)
