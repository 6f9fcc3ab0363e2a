"""The operations of StableHLO and its neighbours, by what they do."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


DIALECTS = _names("stablehlo mhlo chlo func sdy vhlo")  # an operation of the same name elsewhere is another operation
TRANSCENDENTAL = _names(
    "exponential exponential_minus_one log log_plus_one logistic power sqrt rsqrt cbrt sine cosine tan tanh atan2 erf "
    "atan rng"
)
# Functions that a compiler writes out as others: FLOPs and transcendentals per element of f32, as XLA of JAX 0.10.2 counts
# them for each function alone
EXPANDED = {
    "erfc": (62, 1),
    "erf_inv": (37, 2),
    "lgamma": (53, 4),
    "digamma": (73, 3),
    "sinh": (10, 3),
    "cosh": (3, 2),
    "asin": (5, 2),
    "acos": (3, 2),
    "_asin_acos_kernel": (5, 2),
    "asinh": (11, 3),
    "acosh": (7, 4),
    "atanh": (6, 2),
    "bessel_i1e": (83, 1),
    "zeta": (121, 11),
    "polygamma": (260, 19),
    "next_after": (24, 0),
}
ELEMENTWISE = _names(
    "abs add and ceil clamp compare complex convert count_leading_zeros divide floor imag is_finite maximum minimum "
    "multiply negate not or popcnt real reduce_precision remainder round_nearest_afz round_nearest_even select "
    "shift_left shift_right_arithmetic shift_right_logical sign stochastic_convert subtract uniform_dequantize "
    "uniform_quantize xor is_inf is_neg_inf is_pos_inf mulhi conj square"
)
# No work and no traffic: another name for the same bytes, or nothing at all
FREE = _names(
    "reshape bitcast tuple get_tuple_element optimization_barrier after_all create_token domain add_dependency "
    "dynamic_reshape get_dimension_size set_dimension_size async_done async_update propagation_barrier "
    "sharding_constraint sharding_group data_flow_edge func_data_flow_edge reshard trace"
)
# Data is moved or made, nothing is computed
MOVES = _names(
    "broadcast broadcast_in_dim concatenate copy transpose reverse iota pad dynamic_broadcast_in_dim dynamic_iota "
    "dynamic_pad real_dynamic_slice slice dynamic_slice dynamic_update_slice gather dynamic_gather torch_index_select "
    "partition_id replica_id constant_like infeed outfeed send recv bitcast_convert all_slice"
)
TOUCHING = _names("slice dynamic_slice real_dynamic_slice gather dynamic_gather torch_index_select")
COLLECTIVES = _names(
    "all_reduce all_gather reduce_scatter all_to_all collective_permute collective_broadcast collective_reduce "
    "cross-replica-sum"
)
# Moves that a kernel can do while it reads
_RESHAPES = _names(
    "broadcast broadcast_in_dim iota transpose slice dynamic_slice real_dynamic_slice gather pad concatenate reverse "
    "copy bitcast_convert constant_like dynamic_iota dynamic_broadcast_in_dim partition_id replica_id"
)
# What can run inside the kernel that reads it
LIGHT = ELEMENTWISE | (TRANSCENDENTAL - {"rng"}) | frozenset(EXPANDED) | _RESHAPES | {"sum_of_parts"}
# What a library's product reads through
LAYOUT = _names("transpose slice dynamic_slice copy concatenate")
# Calls of a library even where they are no product: they take their operands from memory
LIBRARY = _names("custom_call sort top_k topk fft cholesky triangular_solve rng_bit_generator")
SAME_SIZE = ELEMENTWISE | TRANSCENDENTAL | _names("transpose copy bitcast_convert")
EFFECTS = _names("custom_call infeed outfeed send recv")  # run whether or not their results are read
# The frequent ones that hold no region
PLAIN = _names(
    "add subtract multiply divide negate broadcast_in_dim constant convert reshape transpose slice maximum minimum "
    "compare select exponential log tanh rsqrt sqrt power dot_general dot iota gather concatenate pad bitcast "
    "dynamic_slice dynamic_update_slice and or"
)
