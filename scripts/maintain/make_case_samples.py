"""Write the sample programs of chapter 22 beyond those of make_samples.py (needs JAX; the text of a program differs by JAX version)."""

from make_samples import write

from mlsysim.hlo.export import Recipe


def recipes() -> dict[str, Recipe]:
    """The name of each sample, and what it is a lowering of."""

    def llama3(size: str, devices: int) -> Recipe:
        return Recipe(f"Llama-3-{size}", "fsdp", devices, 1, 4096, embedding="onehot", recompute="attention")

    return {
        "llama200m_train_fsdp4.sm": llama3("200M", 4),
        "llama500m_train_fsdp4.sm": llama3("500M", 4),
        "llama100m_train_fsdp8.sm": llama3("100M", 8),
        "llama2_7b_train_dp16.sm": Recipe("Llama-2-7B", "dp", 16, 2, 4096),
        "llama2_7b_train_dp128.sm": Recipe("Llama-2-7B", "dp", 128, 1, 4096),
    }


if __name__ == "__main__":
    write(recipes())
