package ecos

// kkt is the system of a step,
//
//	[ static  G'    ]
//	[ G      -V     ]  with V = W² + static,
//
// upper triangle by columns: unknowns first, then rows. Behind the rows of each cone
// two more stand for the part of its V that is not diagonal.
type kkt struct {
	*ldl
	p    *solver
	at   []int // of a row: where it is
	diag []int // of a row: the entry of its diagonal
	tail []int // of a cone: the entry with which its two columns begin

	x, dx, e []float64 // answer, correction and error
	gx       []float64
}

func newKKT(p *solver) *kkt {
	k := &kkt{p: p, gx: make([]float64, p.m)}
	var m pattern
	var values, sign []float64
	add := func(i int, v float64) { m.index, values = append(m.index, i), append(values, v) }
	begin := func(s float64) int {
		m.start, sign = append(m.start, len(m.index)), append(sign, s)
		return len(m.start) - 1
	}
	for range p.n {
		add(begin(1), static)
	}
	row := func(r int) {
		col := begin(-1)
		for e, i := range p.rows[r].Index {
			add(i, p.rows[r].Value[e])
		}
		k.at, k.diag = append(k.at, col), append(k.diag, len(m.index))
		add(col, -1)
	}
	for r := range p.linear {
		row(r)
	}
	for i := range p.cones {
		c := &p.cones[i]
		for r := c.from; r < c.to; r++ {
			row(r)
		}
		c.at = k.at[c.from]
		k.tail = append(k.tail, len(m.index))
		v := begin(-1)
		for at := c.at + 1; at < v; at++ {
			add(at, 0)
		}
		add(v, -1)
		u := begin(1)
		for at := c.at; at < v; at++ {
			add(at, 0)
		}
		add(u, 1)
	}
	m.start = append(m.start, len(m.index))
	k.ldl = newLDL(m, sign)
	for e, v := range values {
		k.values[k.entry[e]] = v
	}
	for _, a := range []*[]float64{&k.x, &k.dx, &k.e} {
		*a = make([]float64, len(sign))
	}
	return k
}

// update writes the scaling at hand.
func (k *kkt) update() {
	set := func(entry int, v float64) { k.values[k.entry[entry]] = v }
	for r, v := range k.p.w2 {
		set(k.diag[r], -v-static)
	}
	for i := range k.p.cones {
		c, e := &k.p.cones[i], k.tail[i]
		next := func(v float64) { set(e, v); e++ }
		set(k.diag[c.from], float64(-c.eta2*c.d1)-static)
		for r := c.from + 1; r < c.to; r++ {
			set(k.diag[r], -c.eta2-static)
		}
		for _, q := range c.q {
			next(float64(-c.eta2*c.v1) * q)
		}
		next(-c.eta2)
		next(-c.eta2 * c.u0)
		for _, q := range c.q {
			next(float64(-c.eta2*c.u1) * q)
		}
		next(c.eta2 + static)
	}
}

// spread writes x and z as the system has them.
func (k *kkt) spread(x, z, out []float64) {
	clear(out)
	copy(out, x)
	for r, at := range k.at {
		out[at] = z[r]
	}
}

// solve solves, and refines the answer as long as that pays. At the start W is one.
func (k *kkt) solve(b, x, z []float64, start bool) {
	k.ldl.solve(b, k.x)
	enough, before := (1+largest(b))*accuracy, 0.0
	for pass := 0; ; pass++ {
		k.split(x, z)
		off := k.miss(b, x, z, start)
		if pass > 0 && off > before { // the last one made it worse
			for i := range k.x {
				k.x[i] -= k.dx[i]
			}
			k.split(x, z)
			return
		}
		if pass == refinements || off < enough || pass > 0 && before < refined*off {
			return
		}
		before = off
		k.ldl.solve(k.e, k.dx)
		for i := range k.x {
			k.x[i] += k.dx[i]
		}
	}
}

// split copies the answer out.
func (k *kkt) split(x, z []float64) {
	copy(x, k.x)
	for r, at := range k.at {
		z[r] = k.x[at]
	}
}

// miss finds what the answer leaves over, and the largest of that. The sign of what is
// added to the diagonal is that of ECOS, which has it wrong in the last row of a cone.
func (k *kkt) miss(b, x, z []float64, start bool) float64 {
	p, e := k.p, k.e
	clear(e[p.n:])
	for i := range x {
		e[i] = b[i] - float64(static*x[i])
	}
	p.less(z, e[:p.n])
	p.times(x, k.gx)
	for r, at := range k.at {
		e[at] = b[at] - k.gx[r] + float64(static*z[r])
	}
	for i := range p.cones {
		r := p.cones[i].to - 1
		e[k.at[r]] = b[k.at[r]] - k.gx[r] - float64(static*z[r])
	}
	if start {
		for i := p.n; i < len(e); i++ {
			e[i] += k.x[i]
		}
		return largest(e)
	}
	for r := range p.linear {
		e[k.at[r]] += float64(p.w2[r] * k.x[k.at[r]])
	}
	for i := range p.cones {
		p.cones[i].square(k.x, e)
	}
	return largest(e)
}

func largest(a []float64) float64 {
	most := 0.0
	for _, v := range a {
		if v > most {
			most = v
		}
		if -v > most {
			most = -v
		}
	}
	return most
}
