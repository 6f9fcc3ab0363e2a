// The editor of a listing: CodeMirror 6 with Python, line numbers and nothing that is loaded later.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.bool, tags.null], class: "live-tok-keyword" },
  { tag: [tags.string, tags.special(tags.string)], class: "live-tok-string" },
  { tag: tags.number, class: "live-tok-number" },
  { tag: tags.comment, class: "live-tok-comment" },
  { tag: tags.function(tags.variableName), class: "live-tok-function" },
]);

export function open(parent, text, label, run) {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), history(), drawSelection(), indentUnit.of("    "), indentOnInput(), bracketMatching(),
        python(), syntaxHighlighting(colours),
        // Tab moves on, as everywhere in a page: nobody's keyboard is caught.
        keymap.of([{ key: "Mod-Enter", run: () => (run(), true) }, { key: "Mod-]", run: indentWithTab.run }, ...defaultKeymap, ...historyKeymap]),
        EditorView.contentAttributes.of({ "aria-label": label }),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    set: (value) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } }),
    focus: () => view.focus(),
  };
}
