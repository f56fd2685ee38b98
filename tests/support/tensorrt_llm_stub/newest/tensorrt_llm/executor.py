from llm_on_llama import LoRARequest

__all__ = ["LoRARequest"]
