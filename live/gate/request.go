package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"unicode/utf8"
)

// What is taken of a prompt as long as the server has counted none of its client, and of what is no text.
const (
	usualPerByte  = 0.25 // tokens of a byte
	perMessage    = 4    // tokens around each message
	perImage      = 1024 // tokens of an image, or whatever else is no text
	usualOutput   = 256  // tokens of an answer, in forecasts
	mostChoices   = 64   // answers to one request
	mostDepth     = 64   // of a body in JSON
	mostOfAnyKind = 1 << 30
)

// ask is what a request asks for.
type ask struct {
	body    []byte // as it goes to the server
	stream  bool
	strip   bool   // the client has not asked for the usage that the gate asks for
	model   string // for a reader
	text    int    // bytes of prompts
	exact   int    // tokens of prompts that are given as tokens
	images  int    // parts of prompts that are no text
	around  int    // messages
	most    int    // tokens of output of each answer; 0: not said
	choices int    // answers
	silent  bool   // it has no output, as for embeddings
}

// input is the tokens that the prompt is taken to have.
func (q *ask) input(perByte float64) int {
	n := math.Ceil(float64(q.text)*perByte) + float64(q.exact) + perImage*float64(q.images) + perMessage*float64(q.around)
	return max(1, int(min(n, mostOfAnyKind)))
}

// outputs is for how many tokens of output there must be room when the request begins.
func (q *ask) outputs(reserve int) int {
	switch {
	case q.silent:
		return 0
	case q.most == 0:
		return reserve
	}
	return min(reserve, q.most*q.choices)
}

// believed is how many tokens of output a request is taken to have in forecasts, where the client has such answers
// in the mean.
func (q *ask) believed(mean float64) int {
	n := usualOutput
	if mean > 0 {
		n = int(math.Round(mean))
	}
	if q.most > 0 {
		n = min(n, q.most*q.choices)
	}
	return max(1, n)
}

// kind is what is asked of the server.
type kind uint8

const (
	chat       kind = iota // POST /v1/chat/completions
	completion             // POST /v1/completions
	embedding              // POST /v1/embeddings
)

// message is one of a chat, as far as the gate has to know it.
type message struct {
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// part is one of the contents of a message.
type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// serversOwn are keys of bodies that do not go on: by priority a server would be told another order than that of the gate, and
// kv_transfer_params have vLLM fetch from elsewhere.
var serversOwn = []string{"priority", "kv_transfer_params"}

// parse reads the body of a request. The body that goes on is written anew from what was read, so that the server cannot
// read another one out of it, such as from a key that is there twice. usage has a stream end with what it has used.
func parse(k kind, text []byte, usage bool) (ask, *problem) {
	q := ask{choices: 1, silent: k == embedding}
	var keys map[string]json.RawMessage
	switch {
	case !utf8.Valid(text):
		return q, wrong(http.StatusBadRequest, "the body is no UTF-8")
	case tooDeep(text):
		return q, wrong(http.StatusBadRequest, "the body is nested more than %d deep", mostDepth)
	}
	if err := json.Unmarshal(text, &keys); err != nil || keys == nil {
		return q, wrong(http.StatusBadRequest, "the body is no JSON object: %v", err)
	}
	r := reader{keys: keys}
	for _, key := range serversOwn {
		delete(keys, key)
	}
	r.get("model", &q.model)
	q.model = q.model[:min(len(q.model), mostLabel)]
	r.get("stream", &q.stream)
	most, newer, best := 0, 0, 0
	r.number("max_tokens", &most)
	r.number("max_completion_tokens", &newer)
	r.number("n", &q.choices)
	r.number("best_of", &best)
	q.most = max(most, newer)
	q.choices = max(1, q.choices, best)
	switch k {
	case chat:
		r.messages(&q)
	case completion:
		r.prompt("prompt", &q)
	case embedding:
		r.prompt("input", &q)
		q.stream = false
	}
	if r.problem == nil && q.choices > mostChoices {
		r.problem = wrong(http.StatusBadRequest, "%d answers to one request are too many: at most %d", q.choices, mostChoices)
	}
	if r.problem == nil && q.stream && usage {
		r.askUsage(&q)
	}
	if r.problem != nil {
		return q, r.problem
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(keys); err != nil {
		return q, wrong(http.StatusBadRequest, "the body cannot be passed on: %v", err)
	}
	q.body = bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	return q, nil
}

// tooDeep tells whether brackets are nested too deep. Those in strings do not count.
func tooDeep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > mostDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// reader takes values out of a body, until one cannot be read.
type reader struct {
	keys    map[string]json.RawMessage
	problem *problem
}

// get reads a value that may be missing, or null.
func (r *reader) get(key string, v any) {
	text, there := r.keys[key]
	if !there || r.problem != nil {
		return
	}
	if err := json.Unmarshal(text, v); err != nil {
		r.problem = wrong(http.StatusBadRequest, "%s: %v", key, err)
	}
}

// number reads a whole number that is not negative, also one that is written as 16.0.
func (r *reader) number(key string, v *int) {
	f := float64(*v)
	r.get(key, &f)
	if r.problem == nil && (f != math.Trunc(f) || f < 0 || f > mostOfAnyKind) {
		r.problem = wrong(http.StatusBadRequest, "%s: %v is no whole number from 0 to %d", key, f, mostOfAnyKind)
	}
	*v = int(f)
}

// messages measures those of a chat, and the tools that stand beside them.
func (r *reader) messages(q *ask) {
	var all []message
	r.get("messages", &all)
	for _, m := range all {
		q.around++
		q.text += len(m.ToolCalls)
		var text string
		var parts []part
		switch {
		case json.Unmarshal(m.Content, &text) == nil:
			q.text += len(text)
		case json.Unmarshal(m.Content, &parts) == nil:
			for _, p := range parts {
				if p.Text == "" && p.Type != "text" {
					q.images++
				}
				q.text += len(p.Text)
			}
		default:
			q.text += len(m.Content)
		}
	}
	q.text += len(r.keys["tools"]) + len(r.keys["functions"]) + len(r.keys["documents"])
}

// prompt measures a text, several of them, tokens, or several lists of tokens. Each of several is answered.
func (r *reader) prompt(key string, q *ask) {
	value := r.keys[key]
	var text string
	var texts []string
	var tokens []int64
	var lists [][]int64
	switch {
	case json.Unmarshal(value, &text) == nil:
		q.text = len(text)
	case json.Unmarshal(value, &tokens) == nil:
		q.exact = len(tokens)
	case json.Unmarshal(value, &texts) == nil:
		for _, t := range texts {
			q.text += len(t)
		}
		q.choices *= max(1, len(texts))
	case json.Unmarshal(value, &lists) == nil:
		for _, t := range lists {
			q.exact += len(t)
		}
		q.choices *= max(1, len(lists))
	case r.problem == nil:
		r.problem = wrong(http.StatusBadRequest, "%s: a text, a list of texts or tokens is expected", key)
	}
	if q.silent {
		q.choices = 1
	}
}

// askUsage has the server tell at the end of a stream how many tokens there were.
func (r *reader) askUsage(q *ask) {
	var options map[string]json.RawMessage
	r.get("stream_options", &options)
	if r.problem != nil {
		return
	}
	var asked bool
	if json.Unmarshal(options["include_usage"], &asked) == nil && asked {
		return
	}
	if options == nil {
		options = map[string]json.RawMessage{}
	}
	options["include_usage"] = json.RawMessage("true")
	text, err := json.Marshal(options)
	if err != nil {
		r.problem = wrong(http.StatusBadRequest, "stream_options: %v", err)
		return
	}
	r.keys["stream_options"], q.strip = text, true
}

// usage is the tokens of a request, as the server has counted them.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

// sane is the usage where it can be true; nil where it cannot.
func (u *usage) sane() *usage {
	if u == nil || u.Prompt < 0 || u.Completion < 0 || u.Prompt > mostOfAnyKind || u.Completion > mostOfAnyKind {
		return nil
	}
	return u
}

// chunk is a piece of a stream, or an answer, as far as the gate has to know it.
type chunk struct {
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Text    string `json:"text"`
	Delta   words  `json:"delta"`
	Message words  `json:"message"`
}

// words is what a model says.
type words struct {
	Content          string          `json:"content"`
	Reasoning        string          `json:"reasoning"`
	ReasoningContent string          `json:"reasoning_content"`
	Refusal          string          `json:"refusal"`
	ToolCalls        json.RawMessage `json:"tool_calls"`
}

// size is the bytes of what is said.
func (c *choice) size() int {
	n := len(c.Text)
	for _, w := range []*words{&c.Delta, &c.Message} {
		n += len(w.Content) + len(w.Reasoning) + len(w.ReasoningContent) + len(w.Refusal)
		if s := string(w.ToolCalls); s != "null" && s != "[]" {
			n += len(s)
		}
	}
	return n
}

// tokens is how many tokens a piece of a stream has: one for each answer that has grown.
func (c *chunk) tokens() int {
	n := 0
	for i := range c.Choices {
		if c.Choices[i].size() > 0 {
			n++
		}
	}
	return n
}

// answered is what an answer that comes as a whole has used: what the server says, else an estimate from its length.
func answered(text []byte, input int, perByte float64) (*usage, error) {
	var c chunk
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("the answer of the server is no JSON: %w", err)
	}
	if u := c.Usage.sane(); u != nil {
		return u, nil
	}
	size := 0
	for i := range c.Choices {
		size += c.Choices[i].size()
	}
	return &usage{Prompt: input, Completion: int(math.Ceil(float64(size) * perByte))}, nil
}
