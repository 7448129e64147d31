// Has Node go by HTTPS_PROXY where it does not by itself: `wiretape run` names this file in NODE_OPTIONS.
// From 22.21 and 24.5 on, NODE_USE_ENV_PROXY does that for fetch and https, but not for what connects by itself: undici
// from npm, ws, http2, and whoever has an agent, a dispatcher or a createConnection of its own.
"use strict";

const [major, minor] = process.versions.node.split(".").map(Number);
const isOld = major < 22 || (major === 22 && minor < 21) || major === 23 || (major === 24 && minor < 5);

// NODE_USE_ENV_PROXY makes Node 22 warn of its own agent, which no program asked for.
const plainEmit = process.emit;
process.emit = function emit(name, ...given) {
  return name === "warning" && given[0]?.code === "UNDICI-EHPA" ? false : plainEmit.call(this, name, ...given);
};
if (process.env.HTTPS_PROXY) {
  try {
    if (major < 24) permitChildren();
    install(new URL(process.env.HTTPS_PROXY));
  } catch {
    // the program runs without being recorded
  }
}

function install(proxy) {
  const http = require("node:http");
  const http2 = require("node:http2");
  const https = require("node:https");
  const net = require("node:net");
  const tls = require("node:tls");
  const { Duplex } = require("node:stream");
  const credential = Buffer.from(`${proxy.username}:${proxy.password}`).toString("base64");

  const excluded = (process.env.NO_PROXY ?? "").split(",");
  const isDirect = (host) => excluded.includes(`${host}`.replace(/^\[|\]$/g, "").toLowerCase());

  function reach(host, port, done) {
    const socket = net.connect({ host, port });
    socket.once("error", done);
    socket.once("connect", () => done(socket.off("error", done) && null, socket));
  }

  function tunnel(host, port, done) {
    const authority = net.isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
    const headers = { host: authority, "proxy-authorization": `Basic ${credential}` };
    const asked = http.request({
      host: proxy.hostname, port: proxy.port, method: "CONNECT", path: authority, headers, agent: false,
    });
    asked.once("error", done);
    asked.once("connect", (answer, socket, early) => {
      asked.off("error", done);
      if (early.length) socket.unshift(early); // a server that speaks first may have done so in the same read
      if (answer.statusCode === 200) done(null, socket);
      else done(new Error(`the proxy answered ${answer.statusCode} for ${authority}`));
    });
    asked.end();
  }

  function secure(options, done) {
    const secured = tls.connect(options);
    secured.once("error", done);
    secured.once("secureConnect", () => {
      secured.off("error", done);
      done(null, secured);
    });
  }

  function connect({ protocol, hostname, port, servername }, done) {
    const host = hostname.replace(/^\[|\]$/g, "");
    const isSecure = protocol === "https:";
    (isDirect(host) ? reach : tunnel)(host, port || (isSecure ? 443 : 80), (error, socket) => {
      if (error || !isSecure) return done(error, socket);
      const name = servername || (net.isIP(host) ? "" : host); // an address is no name, but the certificate is for it
      secure({ socket, host, servername: name, ALPNProtocols: ["http/1.1"] }, done);
    });
  }

  // A connection through the proxy that can be written to before it is open.
  class Tunnel extends Duplex {
    constructor(host, port) {
      super();
      tunnel(host, port, (error, socket) => {
        if (error || this.destroyed) {
          socket?.destroy();
          this.destroy(error);
          return;
        }
        this.socket = socket.setNoDelay();
        if (this.isUnreferenced) socket.unref();
        socket.on("data", (data) => this.push(data) || socket.pause());
        socket.on("end", () => this.push(null));
        socket.on("error", (failure) => this.destroy(failure));
        socket.on("close", () => this.destroy());
        this.pending?.();
      });
    }

    // As of a socket: an idle connection does not keep its program running.
    ref() {
      this.isUnreferenced = false;
      this.socket?.ref();
    }

    unref() {
      this.isUnreferenced = true;
      this.socket?.unref();
    }

    whenOpen(act) {
      if (this.socket) act();
      else this.pending = act;
    }

    _read() {
      this.socket?.resume();
    }

    _write(data, encoding, done) {
      this.whenOpen(() => this.socket.write(data, encoding, done));
    }

    _final(done) {
      this.whenOpen(() => this.socket.writableEnded ? done() : this.socket.end(done)); // as after the server's end
    }

    _destroy(error, done) {
      this.socket?.destroy();
      done(error);
    }
  }

  // What wraps a stream that is no socket of Node's own leaves that one's references alone.
  function referring(wrapper, socket) {
    wrapper.ref = () => (socket.ref(), wrapper);
    wrapper.unref = () => (socket.unref(), wrapper);
    return wrapper;
  }

  // The properties of a socket by which http2 names the origin of its connection.
  function peer({ host, port }) {
    const version = net.isIP(host);
    const address = version ? { remoteAddress: { value: host }, remoteFamily: { value: `IPv${version}` } } : {};
    return { remotePort: { value: Number(port || 443) }, ...address };
  }

  const isHttp = ({ port, headers, ALPNProtocols: names }) =>
    Number(port) === 443 || headers || (Array.isArray(names) && (names.includes("http/1.1") || names.includes("h2")));

  const plainConnect = tls.connect;
  tls.connect = function connect(first, ...others) {
    const [host, given] = others;
    if (typeof host === "string" && typeof given === "object") { // as http2 calls it
      return connect.call(this, { port: first, host, ...given }, ...others.slice(2));
    }
    if (typeof first !== "object" || !first?.host || first.socket || first.path || !isHttp(first) || isDirect(first.host)) {
      return plainConnect.call(this, first, ...others);
    }
    const socket = new Tunnel(first.host, first.port || 443);
    const secured = plainConnect.call(this, { ...first, socket }, ...others);
    socket.once("error", (error) => secured.destroy(error));
    if (first.timeout) secured.setTimeout(first.timeout); // as where Node connects
    return referring(Object.defineProperties(secured, peer(first)), socket);
  };

  // Where a stream of JS brings its frames at once, Node waits for ever to send the rest of a request that its server
  // has answered and reset without an error.
  function ending(session) {
    const request = session.request;
    session.request = function (...given) {
      const stream = request.apply(this, given);
      const isGone = () => stream.closed && stream.state.state === http2.constants.NGHTTP2_STREAM_STATE_IDLE;
      return stream.once("end", () => setImmediate(() => isGone() && stream.destroy()));
    };
    return session;
  }

  const plainSession = http2.connect;
  http2.connect = function connect(authority, options, listener) {
    if (typeof options === "function") return connect.call(this, authority, {}, options);
    const { protocol, hostname, port } = typeof authority === "string" ? new URL(authority) : authority;
    if (protocol !== "http:" || !hostname || options?.createConnection || options?.path || isDirect(hostname)) {
      return ending(plainSession.call(this, authority, options, listener)); // TLS is connected as above
    }
    const socket = new Tunnel(hostname.replace(/^\[|\]$/g, ""), port || 80);
    const session = plainSession.call(this, authority, { ...options, createConnection: () => socket }, listener);
    return referring(ending(session), socket);
  };
  require("node:module").syncBuiltinESMExports();
  if (!isOld) return;

  const dispatcher = Symbol.for("undici.globalDispatcher.1");
  const plainFetch = globalThis.fetch;
  let own;
  globalThis.fetch = function fetch(input, init) {
    void globalThis.Headers; // which loads what makes the first dispatcher
    const current = globalThis[dispatcher];
    if (current !== own && current?.constructor?.name === "Agent") {
      const symbol = Object.getOwnPropertySymbols(current).find(({ description }) => description === "options");
      if (!current[symbol]?.connect) own = globalThis[dispatcher] = new current.constructor({ ...current[symbol], connect });
    }
    return plainFetch(input, init);
  };

  const direct = https.Agent.prototype.createConnection;
  https.Agent.prototype.createConnection = function (options, done) {
    if (options.socketPath || options.socket || isDirect(options.host)) return direct.call(this, options, done);
    tunnel(options.host, options.port, (error, socket) => {
      if (error) done(error);
      else secure({ ...options, socket }, done);
    });
  };
}

// Before 24, Node's permission model refuses to read this file in the programs that this one starts, which then end.
// An option allows it; without the model, Node does not start with that option. A shell's line is not changed: what
// looks like Node may be any text in it. Its programs start without this file.
function permitChildren() {
  const children = require("node:child_process");
  const quoted = (value) => value.includes(" ") ? JSON.stringify(value) : value;
  const allowed = `--allow-fs-read=${__filename}`;
  const asking = new RegExp("(?<![\\w.-])node(js)?(?=(\\s+((--allow-fs-(read|write)|--require|--import|--conditions|-[rC])" +
    "\\s+[^-\\s]\\S*|-\\S+))*?\\s+--(experimental-)?permission(?![\\w-]))");

  function permitting(words) {
    const isNode = (word, index) => /(^|\/)node(js)?$/.test(word) &&
      ["node", ...words.slice(index + 1)].join(" ").search(asking) === 0;
    const after = words.includes(allowed) ? 0 : words.findIndex(isNode) + 1; // a fork inherits the option
    return after ? [...words.slice(0, after), allowed, ...words.slice(after)] : words;
  }

  function nodeOptions(options, isAsking) {
    if (isAsking) return options.replace(`--require=${quoted(__filename)}`, "");
    const isMissing = /(?<!\S)--(experimental-)?permission(?![\w-])/.test(options) && !options.includes(allowed);
    return isMissing ? `${options} --allow-fs-read=${quoted(__filename)}` : options;
  }

  const plainSpawn = children.ChildProcess.prototype.spawn;
  children.ChildProcess.prototype.spawn = function spawn(options) {
    const { args = [], envPairs = [] } = options;
    const isAsking = /(^|\/)(ba|da|k|z)?sh$/.test(args[0]) && args.some((word) => asking.test(word));
    const pairs = envPairs.map((pair) => pair.startsWith("NODE_OPTIONS=") ? nodeOptions(pair, isAsking) : pair);
    return plainSpawn.call(this, { ...options, args: permitting(args), envPairs: pairs });
  };
  for (const name of ["spawnSync", "execFileSync"]) {
    const plain = children[name];
    children[name] = function (file, args, ...others) {
      return plain.call(this, file, Array.isArray(args) ? permitting([file, ...args]).slice(1) : args, ...others);
    };
  }
  const plainExec = children.execSync;
  children.execSync = function execSync(line, options) {
    if (!asking.test(line)) return plainExec.call(this, line, options);
    const env = options?.env ?? process.env;
    return plainExec.call(this, line, { ...options, env: { ...env, NODE_OPTIONS: nodeOptions(env.NODE_OPTIONS ?? "", true) } });
  };
}
