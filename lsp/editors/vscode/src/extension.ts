// The VS Code client: starts `mslang lsp`, and shows the program at the cursor in a document beside the schedule.
import * as vscode from "vscode";
import { LanguageClient, LanguageClientOptions, ServerOptions, TransportKind } from "vscode-languageclient/node";

/** The server's answer to `mslang/irAt`. */
interface ProgramAt {
  statement: { start: { line: number; character: number }; end: { line: number; character: number } } | null;
  before: string;
  after: string;
  trace: string;
  error: string | null;
  passes: number;
}

const SCHEME = "mslang-program";
const FOLLOW_DELAY_MS = 50;

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const view = new ProgramView();
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, view),
    vscode.commands.registerCommand("mslang.showProgram", () => view.show()),
    vscode.commands.registerCommand("mslang.restart", restart),
    vscode.window.onDidChangeTextEditorSelection((event) => view.follow(event.textEditor)),
    vscode.workspace.onDidChangeTextDocument((event) => {
      const editor = vscode.window.activeTextEditor;
      if (editor?.document === event.document) view.follow(editor);
    }),
  );
  await start();
}

export async function deactivate(): Promise<void> {
  if (client?.isRunning()) await client.stop();
}

async function start(): Promise<void> {
  const command = vscode.workspace.getConfiguration("mslang").get<string[]>("server.command", ["mslang", "lsp"]);
  const server: ServerOptions = { command: command[0], args: command.slice(1), transport: TransportKind.stdio };
  const allowed = vscode.workspace.getConfiguration("mslang").get<string[]>("primitives.allowed", []);
  const options: LanguageClientOptions = {
    // Not the preview's scheme: a printed program is not a source file to be checked.
    documentSelector: [
      { language: "mslang", scheme: "file" },
      { language: "mslang", scheme: "untitled" },
    ],
    initializationOptions: { primitives: { allowed } },
  };
  client = new LanguageClient("mslang", "mslang", server, options);
  try {
    await client.start();
  } catch (error) {
    const text = `The mslang server did not start (${command.join(" ")}): ${error}. Install it from a checkout: pip install ".[lsp]"`;
    void vscode.window.showErrorMessage(text);
  }
}

async function restart(): Promise<void> {
  try {
    await client?.stop();
  } catch {
    // A server that never started, or has died, cannot be stopped.
  }
  await start();
}

/** A read-only document that follows the cursor: the program after the statement there, and the trace so far. */
class ProgramView implements vscode.TextDocumentContentProvider {
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly uri = vscode.Uri.parse(`${SCHEME}:program at the cursor.ms`);
  private text = "";
  private shown = false;
  private timer: NodeJS.Timeout | undefined;
  private asking = new vscode.CancellationTokenSource();

  provideTextDocumentContent(): string {
    return this.text;
  }

  async show(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    if (editor === undefined || editor.document.languageId !== "mslang") return;
    this.shown = true;
    await this.refresh(editor);
    const document = await vscode.workspace.openTextDocument(this.uri);
    await vscode.languages.setTextDocumentLanguage(document, "mslang");
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true });
  }

  follow(editor: vscode.TextEditor): void {
    if (!this.shown || editor.document.languageId !== "mslang" || editor.document.uri.scheme === SCHEME) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.refresh(editor), FOLLOW_DELAY_MS);
  }

  private async refresh(editor: vscode.TextEditor): Promise<void> {
    if (!client?.isRunning()) return;
    // Only the program at the present place is wanted: an earlier question is withdrawn.
    this.asking.cancel();
    const asking = (this.asking = new vscode.CancellationTokenSource());
    const seed = vscode.workspace.getConfiguration("mslang").get<number>("show.seed", 0);
    const place = {
      textDocument: client.code2ProtocolConverter.asTextDocumentIdentifier(editor.document),
      position: client.code2ProtocolConverter.asPosition(editor.selection.active),
    };
    try {
      const answer = await client.sendRequest<ProgramAt | null>("mslang/irAt", { ...place, seed }, asking.token);
      if (asking !== this.asking) return;
      this.text = answer === null ? "# The cursor is not in a schedule.\n" : render(answer);
    } catch (error) {
      if (asking.token.isCancellationRequested) return;
      this.text = `# ${error}\n`;
    }
    this.changed.fire(this.uri);
  }
}

function render(answer: ProgramAt): string {
  const parts = answer.error === null ? [] : answer.error.split("\n").map((line) => `# ${line}`);
  if (answer.passes > 1) parts.push(`# After the last of ${answer.passes} passes of this statement.`);
  return [...parts, answer.after, "# The trace so far:", answer.trace, ""].join("\n");
}
