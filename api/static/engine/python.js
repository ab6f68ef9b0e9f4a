// What modules that are translated from Python (tools/javascript) take for granted. Nothing is known of types: what an
// operator or a method does is looked up when it is used.

export * from "./errors.js";
export * from "./python_values.js";
export * from "./python_sequences.js";
