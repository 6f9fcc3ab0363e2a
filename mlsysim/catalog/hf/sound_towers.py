"""Parameters of encoders of sound beside a text model."""

from mlsysim.catalog.hf.config import MAX_SIZE, Config


def affine(rows: int, columns: int, bias: bool = True) -> int:
    """Parameters of a matrix and its bias."""
    return rows * columns + bias * columns


def whisper(c: Config) -> tuple[int, int, int]:
    """The encoder of Whisper: two convolutions over time, learned positions, layers whose keys have no bias."""
    a = c.inner("audio_config")
    h, f = a.size("d_model", "hidden_size", default=1280), a.size("encoder_ffn_dim", "intermediate_size", default=5120)
    layers = a.size("encoder_layers", "num_hidden_layers", default=32)
    bins, places = a.sizes(num_mel_bins=128, max_source_positions=1500)
    layer = 4 * h * h + 3 * h + 2 * h * f + f + h + 4 * h
    return 3 * bins * h + h + 3 * h * h + h + places * h + layers * layer + 2 * h, h, f


def conformer(c: Config) -> tuple[int, int]:
    """Parameters and width of Gemma 3n's encoder of sound: two convolutions, then conformer layers."""
    a = c.inner("audio_config")
    h, layers, bins = a.sizes(hidden_size=1536, conf_num_hidden_layers=12, input_feat_size=128)
    heads, kernel = a.sizes(conf_num_attention_heads=8, conf_conv_kernel_size=5)
    first, second = 128, 32
    a.must_be("sscp_conv_channel_size", [first, second], "other convolutions")
    entry = 9 * first + first + 9 * first * second + second + bins // 4 * second * h
    layer = 2 * (8 * h * h + 2 * h) + 5 * h * h + 2 * h + h // heads + 3 * h * h + kernel * h + 2 * h + h
    return entry + layers * layer, h


def muse(c: Config) -> int:
    """Convolutions over sound in stages, each narrower in time and wider than the one before."""
    a = c.inner("audio_config")
    widths, depths = a.raw.get("hidden_sizes", [256, 512, 1024, 2048]), a.raw.get("depths", [2, 2, 2, 2])
    patches, kernel = a.raw.get("patch_sizes", [16, 6, 5, 4]), a.size("conv_kernel_size", default=7)
    lists = (widths, depths, patches)
    if any(not isinstance(one, list) or any(type(v) is not int or not 0 < v < MAX_SIZE for v in one) for one in lists):
        a.fail("hidden_sizes", "must list whole numbers, as depths and patch_sizes do")
    if len({len(one) for one in lists}) != 1:
        a.fail("hidden_sizes", "must be as long as depths and patch_sizes")
    a.must_be("mlp_ratio", 4.0, "another width of its MLPs")
    total, before = 0, 1
    for h, depth, patch in zip(widths, depths, patches, strict=True):
        block = h * kernel + h + h + 8 * h * h + 4 * h + h
        total, before = total + affine(patch * before, h) + h + depth * block, h
    out = a.size("out_hidden_size", default=8192)
    return total + before + affine(before, out) + out


def omni(c: Config) -> int:
    """The encoder of sound of Qwen 3 Omni: Whisper's layers behind three convolutions over time and pitch."""
    a = c.inner("audio_config")
    h, f, layers, rows = a.sizes(d_model=1280, encoder_ffn_dim=5120, encoder_layers=32, num_mel_bins=128)
    wide, out = a.sizes(downsample_hidden_size=480, output_dim=3584)
    for _ in range(3):
        rows = (rows + 1) // 2
    layer = affine(h, f) + affine(f, h) + 4 * affine(h, h) + 4 * h
    entry = affine(9, wide) + 2 * affine(9 * wide, wide) + wide * rows * h
    return entry + layers * layer + 2 * h + affine(h, h) + affine(h, out)


def phi4(c: Config) -> tuple[int, int]:
    """Parameters and width of Phi 4's encoder of sound: convolutions, then conformer layers with gates."""
    a = c.inner("audio_config")
    h, f, layers, heads = a.sizes(hidden_size=1024, intermediate_size=1536, num_blocks=24, num_attention_heads=16)
    kernel, wide, out = a.sizes(kernel_size=3, nemo_conv_channels=1024, ext_pw_out_channel=1024)
    far, reduction, final = a.sizes(bias_max_distance=1000, time_reduction=8, nemo_final_size=10)
    steps = reduction.bit_length() - 1
    entry = affine(9, wide) + (steps - 1) * (affine(9, wide) + affine(wide, wide)) + affine(wide * final, h)
    places = far * (1 if a.flag("bias_symmetric", False) else 2) * heads
    feed = 2 * h + affine(h, 2 * f) + affine(f, h)
    conv = 2 * h + 2 * out + affine(h, 2 * out) + kernel * h + h + affine(h, out) + affine(out, h)
    return entry + places + layers * (2 * feed + 4 * affine(h, h) + conv + 4 * h), h
