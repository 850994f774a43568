package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"math"
	"net"
	"net/http"
	"os/user"
	"strconv"
	"strings"
	"sync"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/web"
)

// noUID is the UID of a Caller over TCP: no user has it, least of all root.
const noUID = math.MaxUint32

// localCaller says who is at the other end of a Unix socket. The name of the
// user is looked up when it is first needed: that may take a while.
func (s *Server) localCaller(c net.Conn) (owner, func() Caller, error) {
	who, err := peerOf(c)
	if err != nil {
		s.Log.Error("a connection is refused: the kernel does not say whose it is", "error", err)
		return 0, nil, err
	}
	return owner(who.uid), sync.OnceValue(func() Caller {
		name := userName(who.uid)
		return Caller{User: name, UID: who.uid, GID: who.gid, Groups: who.groups, Grouped: who.grouped, Local: true, Operator: s.Operators(who.uid, name)}
	}), nil
}

// peer is who is at the other end of a Unix socket.
type peer struct {
	uid, gid uint32
	groups   []uint32
	grouped  bool // gid and groups are known
}

// userName is the name of a user, or her number where she has no name.
func userName(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(number); err == nil && u.Username != "" {
		return u.Username
	}
	return number
}

// identify says who sends a request: on the socket whom the kernel names, over
// TCP whom the token stands for.
func (s *Server) identify(c *conn, r *http.Request) (Caller, error) {
	if c.caller != nil {
		return c.caller(), nil
	}
	token := bearer(r)
	if token == "" {
		return Caller{}, api.Refuse(api.NoToken, "a token is needed over TCP: send it as Authorization: Bearer TOKEN")
	}
	sum := sha256.Sum256([]byte(token))
	var found *hashed
	for i := range s.tokens { // all of them: the time taken tells nothing
		if subtle.ConstantTimeCompare(sum[:], s.tokens[i].sum[:]) == 1 {
			found = &s.tokens[i]
		}
	}
	if found == nil && s.TCP.Authenticate != nil {
		c, err := s.TCP.Authenticate(r.Context(), token)
		c.UID, c.Local = noUID, false
		return c, err
	}
	if found == nil {
		return Caller{}, api.Refuse(api.NoToken, "the token is not known here")
	}
	return Caller{User: found.User, UID: noUID, Operator: found.Operator}, nil
}

// bearer is the token of a request, or nothing.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// forAnybody tells whether a path may be asked for without saying who one is:
// signs of life, and the page, which asks the API for all that it shows.
func forAnybody(path string) bool { return path == "/healthz" || path == "/readyz" || web.Serves(path) }

// forTasks tells whether a path is part of the protocol of tasks, who come with
// the tokens of their runs.
func forTasks(path string) bool { return strings.HasPrefix(path, "/v1/task/") }

// operator refuses whoever is none.
func operator(c Caller, what string) error {
	if c.Operator {
		return nil
	}
	return api.Refuse(api.Denied, "%s is for operators: %s is none", what, c.User)
}
