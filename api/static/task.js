// The box in place of the calculator for a model of a user's own task: its questions, and what the model wrote.

import { ask } from "./backend.js";
import { isAborted, messageOf } from "./client.js";
import { byId, confidenceSentence, createButton, createElement, shade, shortenMiddle } from "./format.js";
import { store } from "./state.js";

const LONG = 40; // characters of an example that are shown
const NO_END = "The model wrote no end of an answer.";

export class TaskBox {
  #model = "";
  #form = byId("task");
  #input = byId("question", HTMLInputElement);
  #reply = byId("reply");
  #controller = new AbortController();

  constructor() {
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask(this.#input.value);
    });
  }

  get isShown() {
    return !this.#form.hidden;
  }

  /** Takes the place of the calculator if the selected model is of a task. @param {import("./client.js").Model} model */
  show({ id, task }) {
    const isMoved = Boolean(task) && byId("calculator").contains(document.activeElement);
    this.#form.hidden = !task;
    document.body.classList.toggle("of-task", this.isShown);
    if (isMoved) this.#input.focus({ preventScroll: true });
    if (!task || id === this.#model) return;
    this.#model = id;
    this.#controller.abort();
    this.#reply.replaceChildren();
    this.#input.value = "";
    this.#input.maxLength = task.max_characters;
    byId("characters").textContent = `Characters: ${task.characters}`;
    const examples = task.examples.map((example) => {
      const button = createButton("chip", shortenMiddle(example, LONG), () => this.ask(example));
      return createElement("li", "", button);
    });
    byId("task-examples").replaceChildren(...examples);
  }

  /** Asks the model and shows what it writes, shaded by probability. @param {string} question */
  async ask(question) {
    this.#controller.abort();
    const { signal } = (this.#controller = new AbortController());
    this.#input.value = question;
    store.begin({ question, model: this.#model });
    const written = createElement("p", "characters", `${question}=`);
    const value = createElement("span", "value");
    this.#reply.replaceChildren(createElement("p", "hint", "The model writes …"));
    let [output, whole] = ["", 1];
    try {
      for await (const { text, probability } of ask(this.#model, question, signal)) {
        output += text;
        whole *= probability;
        const character = createElement("span", "", text);
        shade(character, probability);
        written.append(character);
      }
      if (signal.aborted) return;
      const isEnded = output.endsWith("$");
      value.textContent = output.slice(output.lastIndexOf("=") + 1, -1);
      const result = createElement("p", "result", value);
      result.style.setProperty("--length", String([...output].length));
      const sure = createElement("p", "sure", isEnded ? confidenceSentence(whole) : NO_END);
      this.#reply.replaceChildren(isEnded ? result : "", sure, written);
    } catch (error) {
      if (!isAborted(error)) this.#reply.replaceChildren(createElement("p", "failure", messageOf(error)));
    }
  }
}
