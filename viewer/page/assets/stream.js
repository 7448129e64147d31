// The page of one exchange.

boot(async (data) => [
  banner(data.banner),
  el("h1", { class: "any" }, visible(data.title)),
  el("p", { class: "any" }, `${data.state.sign} ${data.state.text} ${visible(data.reason)}`),
]);
