"use strict";
const data = JSON.parse(document.getElementById("games").textContent);
const find = (id) => document.getElementById(id);
let game = null, ply = 0;

function show() {
  const picture = data.pictures[game.frames[ply]];
  const board = find("board");
  if (picture.startsWith("text:")) {
    board.replaceChildren(Object.assign(document.createElement("pre"), { textContent: picture.slice(5) }));
  } else {
    board.innerHTML = picture;
  }
  const end = ply === game.frames.length - 1 ? `: ${game.ending}, returns ${game.returns.join(", ")}` : "";
  find("where").textContent = `${ply} of ${game.frames.length - 1}${end}`;
  const moves = game.moves.slice(1).map((name, k) =>
    Object.assign(document.createElement("span"), { textContent: name, className: k + 1 === ply ? "now" : "" }));
  find("moves").replaceChildren(...moves.flatMap((span) => [span, " "]));
}

function go(to) {
  ply = Math.max(0, Math.min(to, game.frames.length - 1));
  show();
}

if (data.games.length) {
  find("replay").hidden = false;
  find("none").hidden = true;
  for (const [k, one] of data.games.entries()) {
    find("game").append(new Option(`${one.id}: ${one.players.join(" - ")} (${one.returns.join(", ")})`, k));
  }
  find("game").onchange = () => { game = data.games[find("game").value]; go(0); };
  find("first").onclick = () => go(0);
  find("back").onclick = () => go(ply - 1);
  find("forward").onclick = () => go(ply + 1);
  find("last").onclick = () => go(Infinity);
  document.onkeydown = (event) => {
    if (event.key === "ArrowLeft") go(ply - 1);
    if (event.key === "ArrowRight") go(ply + 1);
  };
  game = data.games[0];
  show();
}
