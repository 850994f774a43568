package server

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// refusal503 is told to whom there is no room for.
const refusal503 = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: application/problem+json\r\nContent-Length: 76\r\n\r\n" +
	`{"title":"Service Unavailable","status":503,"detail":"too many connections"}`

// Refusals wait for the request, since an answer that comes before it is not
// understood; so long, and so many of them at once.
const (
	refusalTime = time.Second
	refusals    = 16
)

// owner is whom a connection counts against: a user of this machine, or all
// that came over TCP.
type owner int64

// overTCP owns all connections over TCP.
const overTCP owner = -1

// limits bounds the connections: so many in all, half of them of one owner, so
// that nobody can keep all others out. Where there is no room, the connection
// that has been without a request for longest is closed; one with a request in
// progress never is.
type limits struct {
	mu       sync.Mutex
	max      int // in all
	each     int // of one owner
	open     int
	bodies   int64 // bytes that bodies of requests in progress take up
	of       map[owner]*owned
	refused  uint64
	shed     uint64
	stopping bool
	refusing chan struct{} // refusals in progress
}

// owned are the connections of one owner.
type owned struct {
	open   int
	bodies int64
	quiet  list.List // of *conn without a request, longest first
}

func newLimits(most int) *limits {
	return &limits{max: most, each: max(1, most/2), of: map[owner]*owned{}, refusing: make(chan struct{}, refusals)}
}

// conn is a connection with what is known of its other end.
type conn struct {
	net.Conn
	owner  owner
	caller func() Caller // nil: a token has to say
	limits *limits
	quiet  *list.Element // in the owner's list; nil: a request is in progress
	once   sync.Once
}

// Close closes the connection and gives up its place.
func (c *conn) Close() error {
	c.once.Do(func() { c.limits.leave(c) })
	return c.Conn.Close()
}

// limited accepts as many connections as there is room for.
type limited struct {
	net.Listener
	limits *limits
	who    func(net.Conn) (owner, func() Caller, error) // nil: TCP
	silent bool                                         // TLS: a refusal could not be read
}

// Accept waits for a connection that there is room for.
func (l *limited) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, owner: overTCP, limits: l.limits}
		if l.who != nil {
			if c.owner, c.caller, err = l.who(raw); err != nil {
				raw.Close()
				continue
			}
		}
		if l.limits.enter(c) {
			return c, nil
		}
		l.refuse(raw)
	}
}

// refuse tells a client that there is no room, without keeping others waiting.
func (l *limited) refuse(c net.Conn) {
	select {
	case l.limits.refusing <- struct{}{}:
	default: // there is a crowd
		c.Close()
		return
	}
	go func() {
		defer func() { <-l.limits.refusing }()
		defer c.Close()
		if l.silent {
			return
		}
		c.SetDeadline(time.Now().Add(refusalTime))
		c.Read(make([]byte, 4096))
		c.Write([]byte(refusal503))
	}()
}

// enter makes room for a connection and counts it, or tells that there is none.
func (l *limits) enter(c *conn) bool {
	l.mu.Lock()
	mine := l.of[c.owner]
	if mine == nil {
		mine = &owned{}
		l.of[c.owner] = mine
	}
	var out *conn
	switch {
	case mine.open >= l.each:
		out = mine.longest()
	case l.open >= l.max:
		out = l.crowd().longest()
	}
	ok := !l.stopping && (out != nil || mine.open < l.each && l.open < l.max)
	if ok {
		l.open++
		mine.open++
		c.quiet = mine.quiet.PushBack(c)
	} else {
		l.refused++
		out = nil
	}
	l.forget(c.owner)
	if out != nil {
		l.shed++
	}
	l.mu.Unlock()
	if out != nil {
		out.Close()
	}
	return ok
}

// longest is the connection that has been without a request for longest.
func (o *owned) longest() *conn {
	if e := o.quiet.Front(); e != nil {
		return e.Value.(*conn)
	}
	return nil
}

// crowd is the owner of most connections without a request.
func (l *limits) crowd() *owned {
	var most *owned
	for _, o := range l.of {
		if most == nil || o.quiet.Len() > most.quiet.Len() {
			most = o
		}
	}
	return most
}

func (l *limits) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.of[c.owner]
	if mine == nil {
		return
	}
	l.setQuiet(mine, c, false)
	l.open--
	mine.open--
	l.forget(c.owner)
}

// forget drops an owner of nothing.
func (l *limits) forget(o owner) {
	if mine := l.of[o]; mine != nil && mine.open == 0 && mine.bodies == 0 {
		delete(l.of, o)
	}
}

// hold counts bytes of a body that are kept in memory, or with a negative number
// given back, and tells whether there is room for them: most in all, half of it
// for one owner.
func (l *limits) hold(c *conn, n, most int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.of[c.owner]
	if mine == nil {
		mine = &owned{}
		l.of[c.owner] = mine
	}
	l.bodies += n
	mine.bodies += n
	l.forget(c.owner)
	return l.bodies <= most && mine.bodies <= most/2
}

func (l *limits) setQuiet(mine *owned, c *conn, quiet bool) {
	switch {
	case !quiet && c.quiet != nil:
		mine.quiet.Remove(c.quiet)
		c.quiet = nil
	case quiet && c.quiet == nil:
		c.quiet = mine.quiet.PushBack(c)
	}
}

// state follows what the HTTP server does with a connection.
func (l *limits) state(nc net.Conn, s http.ConnState) {
	c := connOf(nc)
	if c == nil || s != http.StateActive && s != http.StateIdle {
		return
	}
	l.mu.Lock()
	if mine := l.of[c.owner]; mine != nil {
		l.setQuiet(mine, c, s == http.StateIdle)
	}
	over := l.stopping && s == http.StateIdle
	l.mu.Unlock()
	if over {
		c.Close()
	}
}

// close ends all connections without a request, and those that will be.
func (l *limits) close() {
	l.mu.Lock()
	l.stopping = true
	var out []*conn
	for _, o := range l.of {
		for e := o.quiet.Front(); e != nil; e = e.Next() {
			out = append(out, e.Value.(*conn))
		}
	}
	l.mu.Unlock()
	for _, c := range out {
		c.Close()
	}
}

// count tells how many connections are open, and how many were refused or
// closed for others.
func (l *limits) count() (open int, refused, shed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.refused, l.shed
}

// connOf finds our connection below that of TLS.
func connOf(c net.Conn) *conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	mine, _ := c.(*conn)
	return mine
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(c))
}

// Bound bounds the connections to an HTTP server of somebody else as those to a Server over TCP are: most at once, and
// where there is no room, the one that has been without a request for longest is closed. silent is for TLS, over which a
// refusal could not be read. Never are there more than half of the files that this process may open. It sets the ConnState
// of the server, and is called before that serves.
func Bound(h *http.Server, l net.Listener, most int, silent bool) net.Listener {
	bounds := newLimits(min(most, openFiles()/2))
	bounds.each = bounds.max // all have come over TCP
	h.ConnState = bounds.state
	return &limited{Listener: l, limits: bounds, silent: silent}
}
