/*
 * Exchanges data between two hosts over RoCE, and verifies every byte.
 *
 *     cc -o exchange exchange.c -libverbs
 *     ./exchange               on the first host, which waits for the second
 *     ./exchange 10.0.0.1      on the second, with the first one's address
 *
 * From then on both do the same, as exchange.py says, which is the same in Python. Each can be the
 * other's peer. The exit status is 1 if what came is not what the peer sent, or if a step fails.
 */
#include <arpa/inet.h>
#include <err.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TCP_PORT = 18515, ADAPTER_PORT = 1, SECONDS = 60 };
enum { SEND_SIZE = 20000, WRITE_SIZE = 300000 }; /* bytes: many packets, and no multiple of one's */
enum { FIRST = 1, SECOND = 2 };

static uint8_t outgoing[WRITE_SIZE], received[SEND_SIZE], written[WRITE_SIZE];

/* End the program when a step has failed. */
static void check(int is_done, const char *step)
{
	if (!is_done)
		err(1, "%s", step);
}

/* What a host sends: no part of 256 bytes is like the one before. */
static uint8_t pattern(int host, int i)
{
	return i + i / 256 * 7 + host * 85;
}

static int is_pattern(int host, const uint8_t *data, int size)
{
	while (size && data[size - 1] == pattern(host, size - 1))
		size--;
	return !size;
}

/* The TCP connection to the other host; without an address, the one that comes. */
static int meet(const char *address)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(TCP_PORT) };
	int tcp = socket(AF_INET, SOCK_STREAM, 0), on = 1, tries = SECONDS * 10;

	if (!address) {
		setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		check(!bind(tcp, (struct sockaddr *)&at, sizeof(at)) && !listen(tcp, 1), "listen");
		tcp = accept(tcp, NULL, NULL);
		check(tcp >= 0, "accept");
		return tcp;
	}
	check(inet_pton(AF_INET, address, &at.sin_addr) == 1, address);
	/* The first host's program has just been started, perhaps. */
	while (connect(tcp, (struct sockaddr *)&at, sizeof(at))) {
		check(tries--, address);
		usleep(100000);
	}
	return tcp;
}

/* Send a line, and read the peer's: neither host goes on before the other is here. */
static void swap(FILE *to_peer, FILE *from_peer, char line[128])
{
	fprintf(to_peer, "%s\n", line);
	fflush(to_peer);
	check(fgets(line, 128, from_peer) != NULL, "the peer is gone");
}

/* The adapter with the IPv4 address, and its GID: RDMA's address, made of each IP address. */
static struct ibv_context *find_gid(struct in_addr address, struct ibv_gid_entry *gid)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	uint8_t wanted[16] = { [10] = 0xff, [11] = 0xff }; /* ::ffff:ADDRESS */
	struct ibv_port_attr port;

	memcpy(wanted + 12, &address, 4);
	for (; devices && *devices; devices++) {
		struct ibv_context *context = ibv_open_device(*devices);

		check(context && !ibv_query_port(context, ADAPTER_PORT, &port), "a port");
		for (int index = 0; index < port.gid_tbl_len; index++)
			/* The table has each address twice, for RoCE v1 and v2. */
			if (!ibv_query_gid_ex(context, ADAPTER_PORT, index, gid, 0) &&
			    !memcmp(&gid->gid, wanted, 16) && gid->gid_type == IBV_GID_TYPE_ROCE_V2)
				return context;
	}
	errx(1, "no RDMA device has the address %s: is its interface up?", inet_ntoa(address));
}

/* Make a queue pair ready to receive and to send; both hosts begin with packet number 0. */
static void connect_qp(struct ibv_qp *qp, int gid_index, union ibv_gid peer_gid, uint32_t peer_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = ADAPTER_PORT,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		.dest_qp_num = peer_qpn,
		.path_mtu = IBV_MTU_1024, /* fits the 1500 bytes of an Ethernet frame */
		.ah_attr = { .port_num = ADAPTER_PORT, .is_global = 1,
			     .grh = { .dgid = peer_gid, .sgid_index = gid_index, .hop_limit = 64 } },
		.timeout = 14, .retry_cnt = 7,       /* packets lost: again after 67 ms */
		.min_rnr_timer = 12, .rnr_retry = 7, /* no receive posted: again after 0.64 ms */
	};
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

	check(!ibv_modify_qp(qp, &attr, init), "INIT");
	attr.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(qp, &attr, rtr), "ready to receive");
	attr.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(qp, &attr, rts), "ready to send");
}

/* Poll until so many requests have completed. */
static void await_completions(struct ibv_cq *cq, int count)
{
	time_t deadline = time(NULL) + SECONDS;
	struct ibv_wc completion;

	while (count) {
		int polled = ibv_poll_cq(cq, 1, &completion);

		check(polled >= 0 && time(NULL) < deadline, "completions");
		if (polled && completion.status != IBV_WC_SUCCESS)
			errx(1, "a request failed: %s", ibv_wc_status_str(completion.status));
		count -= polled;
	}
}

int main(int argc, char **argv)
{
	int me = argc > 1 ? SECOND : FIRST, peer = argc > 1 ? FIRST : SECOND;
	int tcp = meet(argv[1]), write_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	FILE *to_peer = fdopen(tcp, "w"), *from_peer = fdopen(dup(tcp), "r");
	char line[128], gid_text[INET6_ADDRSTRLEN];
	struct sockaddr_in own;
	socklen_t own_size = sizeof(own);
	struct ibv_gid_entry gid;
	union ibv_gid peer_gid;
	uint32_t peer_qpn, peer_rkey;
	uint64_t peer_buffer;

	for (int i = 0; i < WRITE_SIZE; i++)
		outgoing[i] = pattern(me, i);
	check(!getsockname(tcp, (struct sockaddr *)&own, &own_size), "getsockname");
	struct ibv_context *context = find_gid(own.sin_addr, &gid);
	struct ibv_pd *pd = ibv_alloc_pd(context); /* keys are of use to queue pairs of their PD */
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .sq_sig_all = 1,
		.cap = { .max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	/* An adapter touches registered memory only; the peer gets a key to one part of ours. */
	struct ibv_mr *out = ibv_reg_mr(pd, outgoing, WRITE_SIZE, 0);
	struct ibv_mr *in = ibv_reg_mr(pd, received, SEND_SIZE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *open = ibv_reg_mr(pd, written, WRITE_SIZE, write_access);

	check(qp && out && in && open, "a queue pair and memory");
	inet_ntop(AF_INET6, &gid.gid, gid_text, sizeof(gid_text));
	snprintf(line, sizeof(line), "%s %x %" PRIx64 " %x", gid_text, qp->qp_num,
		 (uint64_t)(uintptr_t)written, open->rkey);
	swap(to_peer, from_peer, line);
	check(sscanf(line, "%45s %x %" SCNx64 " %x", gid_text, &peer_qpn, &peer_buffer, &peer_rkey) == 4 &&
	      inet_pton(AF_INET6, gid_text, &peer_gid) == 1, "the peer's line");
	connect_qp(qp, gid.gid_index, peer_gid, peer_qpn);
	struct ibv_sge into = { (uintptr_t)received, SEND_SIZE, in->lkey };
	struct ibv_recv_wr recv = { .sg_list = &into, .num_sge = 1 }, *bad_recv;
	check(!ibv_post_recv(qp, &recv, &bad_recv), "ibv_post_recv");
	strcpy(line, "ready");
	swap(to_peer, from_peer, line); /* the peer sends only now that there is memory for it */

	struct ibv_sge head = { (uintptr_t)outgoing, SEND_SIZE, out->lkey };
	struct ibv_sge all = { (uintptr_t)outgoing, WRITE_SIZE, out->lkey };
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .sg_list = &head, .num_sge = 1 }, *bad_send;
	struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &all, .num_sge = 1,
				     .next = &send, .wr.rdma = { peer_buffer, peer_rkey } };
	check(!ibv_post_send(qp, &write, &bad_send), "ibv_post_send");
	/* A QP carries out its peer's requests in order: with the RECV the WRITE's data are there. */
	await_completions(cq, 3); /* WRITE, SEND and RECV */
	strcpy(line, "done");
	swap(to_peer, from_peer, line); /* the peer may still wait for an acknowledgement of our QP's */

	int same = is_pattern(peer, received, SEND_SIZE) && is_pattern(peer, written, WRITE_SIZE);
	printf("%s from %s: %d bytes by SEND, %d by RDMA WRITE: %s\n", context->device->name, gid_text,
	       SEND_SIZE, WRITE_SIZE, same ? "all as sent" : "DIFFERENT");
	return !same;
}
