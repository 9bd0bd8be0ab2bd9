"""Commands of serving engines: a deployment written as one, and read back from one.

`served` has a server's settings in no engine's words; `vllm`, `sglang`, `trtllm` and `llamacpp`
write it and read it, `kubernetes` and `ray_serve` wrap that, `memory` turns one amount of memory
into what each engine means by its knob.
"""
