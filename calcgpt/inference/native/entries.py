"""Indices that the kernels and their callers agree on: the entries of a plan (`weights`), and the
features of a token that are computed from the text (`positions`)."""

# The entries of a plan: sizes, options, and offsets into the weights.
(
    N_EMBD,
    N_HEAD,
    N_KV_HEAD,
    HEAD_DIM,
    FF_WIDTH,
    N_LAYER,
    VOCAB_SIZE,
    N_LOGIT,  # VOCAB_SIZE, padded
    N_ZERO,  # zeros at the start of the scratch memory: as a mask, and as an empty output of a head
    IS_LAYERNORM,
    HAS_QK_NORM,
    IS_GATED,
    ACTIVATION,
    # The first row of each positional table. The tables follow the token embeddings, as rows of the
    # same array. 0 if the model has no such table.
    POSITIONS,
    PLACES,
    ROWS,
    KINDS,
    NEXT_KINDS,
    LAST_PLACE,  # the largest index of PLACES; larger places share it
    LAST_ID,  # the last index of `row_of_token`; larger token ids share it
    ROTATION,
    ROW_WINDOW,  # config.row_window + 1, or 0 for no window
    COLUMN_WINDOW,  # config.column_window + 1, or 0 for no window
    # Offsets into the weights
    LAYERS,
    LAYER_SIZE,
    FINAL_NORM,
    HEAD,
    # Offsets within a layer
    ATTENTION_NORM,
    QKV,
    Q_NORM,
    K_NORM,
    OUT,
    FF_NORM,
    UP,
    DOWN,
    PLAN_SIZE,
) = range(36)

# The features of a token that are computed from the text, for the kind embeddings and the windows
# (`calcgpt.model.positions.CoordinatePositions`).
N_FEATURES = 6
(
    TOKEN_KIND,
    NEXT_TOKEN_KIND,
    TOKEN_ROW,  # 0 for none
    CENTER_ROW,  # the center of its row window
    TOKEN_COLUMN,  # 0 for none
    CENTER_COLUMN,
) = range(N_FEATURES)
FIELD_OFFSET = 10_000  # added to the columns of the question's operands, which are counted apart
NO_CENTER = -FIELD_OFFSET  # far from every row and column

NO_ROTATION, ROTATE_BY_POSITION, ROTATE_BY_COORDINATES = range(3)  # of queries and keys
RELU, SQUARED_RELU, SIGMOID, SILU, GELU_TANH = range(5)
ACTIVATIONS = {
    "relu": RELU,
    "relu2": SQUARED_RELU,
    "gelu-tanh": GELU_TANH,
    "silu": SILU,
    "glu": SIGMOID,
    "swiglu": SILU,
}
