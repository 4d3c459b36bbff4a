// Talks to the server. The key is in sessionStorage, which belongs to this tab and to this port.

const stored = 'weft-key';

// Failure is an answer that is an error: {message, right}.
export class Failure extends Error {
  constructor(answer, status) {
    super(answer.message);
    Object.assign(this, { right: answer.right, status });
  }
}

// enter exchanges the token of a link against a key, or uses the key of this tab.
export async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token) {
    history.replaceState(null, '', location.pathname);
    const response = await fetch('api/session', { method: 'POST', body: JSON.stringify({ token }) });
    const answer = await response.json();
    if (!response.ok) throw new Failure(answer, response.status);
    sessionStorage.setItem(stored, JSON.stringify(answer));
  }
  const session = JSON.parse(sessionStorage.getItem(stored) ?? 'null');
  if (!session) throw new Failure({ message: 'Open the link that kubectl weft ui prints.' }, 401);
  return session;
}

function request(path, signal) {
  const { key } = JSON.parse(sessionStorage.getItem(stored) ?? '{}');
  return fetch(path, { headers: { Authorization: `Bearer ${key}` }, signal });
}

// get reads an answer.
export async function get(path, parameters, signal) {
  const response = await request(`api/${path}?${new URLSearchParams(parameters)}`, signal);
  const answer = await response.json();
  if (!response.ok) throw new Failure(answer, response.status);
  return answer;
}

// follow calls receive with the name and the data of each server-sent event, until the stream ends. EventSource cannot
// send the key.
export async function follow(receive) {
  const response = await request('api/changes');
  if (!response.ok) throw new Failure(await response.json(), response.status);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split('\n\n');
    rest = events.pop();
    for (const text of events) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/s.exec(text) ?? [];
      if (name) receive(name, JSON.parse(data));
    }
  }
}
