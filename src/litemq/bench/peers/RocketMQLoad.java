import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The workloads of RocketMQ's Java client. Reads one command per line from a socket on the loopback address, and answers
 * with: messages, seconds, CPU seconds, and the nanoseconds of some messages; or with "error" and the reason.
 */
public class RocketMQLoad {
    private static final int BODY_BYTES = 1024;
    private static final int BATCH = 64; // messages in one request
    private static final int BATCHING_THREADS = 4;
    private static final int MOST_TIMES = 20_000;
    private static final long LATE_S = 60;

    private final String nameserver;
    private final DefaultMQProducer producer = new DefaultMQProducer("bench");
    private final byte[] body = new byte[BODY_BYTES];

    private RocketMQLoad(String nameserver) throws Exception {
        this.nameserver = nameserver;
        producer.setNamesrvAddr(nameserver);
        producer.setPollNameServerInterval(1000);
        producer.start();
    }

    public static void main(String[] args) throws Exception {
        RocketMQLoad load = new RocketMQLoad(args[0]);
        try (ServerSocket server = new ServerSocket(Integer.parseInt(args[1]), 8, InetAddress.getLoopbackAddress())) {
            while (true) {
                try (Socket socket = server.accept()) {
                    load.serve(socket);
                }
            }
        }
    }

    private void serve(Socket socket) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        PrintWriter out = new PrintWriter(socket.getOutputStream(), true);
        for (String line; (line = in.readLine()) != null; ) {
            try {
                out.println(run(line.split(" ")));
            } catch (Throwable error) {
                out.println(("error " + error).replace('\n', ' '));
            }
        }
    }

    private String run(String[] words) throws Exception {
        String topic = words[1];
        double amount = Double.parseDouble(words[2]);
        waitForTopic(topic);
        switch (words[0]) {
            case "awaited": return awaited(topic, amount, Integer.parseInt(words[3]));
            case "batched": return batched(topic, amount, Long.MAX_VALUE);
            case "fill": return batched(topic, LATE_S, (long) amount);
            case "consume": return consume(topic, (long) amount);
            case "steady": return steady(topic, amount, Double.parseDouble(words[3]));
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    /** The broker creates a topic with the first message. */
    private void waitForTopic(String topic) throws Exception {
        long until = System.nanoTime() + LATE_S * 1_000_000_000L;
        while (true) {
            try {
                producer.send(new Message(topic, new byte[BODY_BYTES]), 3000);
                return;
            } catch (Exception notYet) {
                if (System.nanoTime() > until) {
                    throw notYet;
                }
                Thread.sleep(50);
            }
        }
    }

    private String awaited(String topic, double seconds, int inFlight) throws Exception {
        Semaphore free = new Semaphore(inFlight);
        AtomicInteger done = new AtomicInteger(), failed = new AtomicInteger();
        long[] times = new long[MOST_TIMES];
        double cpu = cpuSeconds();
        long begin = System.nanoTime(), end = begin + (long) (seconds * 1e9);
        while (System.nanoTime() < end) {
            free.acquire();
            long sent = System.nanoTime();
            producer.send(new Message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    if (result.getSendStatus() == SendStatus.SEND_OK) {
                        times[done.getAndIncrement() % MOST_TIMES] = System.nanoTime() - sent;
                    } else {
                        failed.incrementAndGet();
                    }
                    free.release();
                }

                @Override
                public void onException(Throwable error) {
                    failed.incrementAndGet();
                    free.release();
                }
            });
        }
        free.acquire(inFlight);
        check(failed.get(), done.get());
        return answer(done.get(), begin, cpu, Arrays.copyOf(times, Math.min(done.get(), MOST_TIMES)));
    }

    private String batched(String topic, double seconds, long most) throws Exception {
        AtomicLong begun = new AtomicLong(), done = new AtomicLong();
        List<Thread> threads = new ArrayList<>();
        AtomicInteger failed = new AtomicInteger();
        double cpu = cpuSeconds();
        long begin = System.nanoTime(), end = begin + (long) (seconds * 1e9);
        for (int number = 0; number < BATCHING_THREADS; number++) {
            Thread thread = new Thread(() -> {
                while (System.nanoTime() < end && begun.getAndAdd(BATCH) < most) {
                    List<Message> batch = new ArrayList<>(BATCH);
                    for (int each = 0; each < BATCH; each++) {
                        batch.add(new Message(topic, body));
                    }
                    try {
                        if (producer.send(batch).getSendStatus() == SendStatus.SEND_OK) {
                            done.addAndGet(BATCH);
                            continue;
                        }
                    } catch (Exception refused) {
                        // counted below
                    }
                    failed.incrementAndGet();
                    begun.addAndGet(-BATCH);
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        check(failed.get(), done.get() / BATCH);
        return answer(Math.min(done.get(), most), begin, cpu, new long[0]);
    }

    private DefaultMQPushConsumer startConsumer(String topic, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("group-" + topic);
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(topic);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    private String consume(String topic, long messages) throws Exception {
        AtomicLong done = new AtomicLong(), begin = new AtomicLong();
        CountDownLatch all = new CountDownLatch(1);
        double cpu = cpuSeconds();
        DefaultMQPushConsumer consumer = startConsumer(topic, (received, context) -> {
            begin.compareAndSet(0, System.nanoTime());
            if (done.addAndGet(received.size()) >= messages) {
                all.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        if (!all.await(LATE_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("received only " + done);
        }
        String answer = answer(messages, begin.get(), cpu, new long[0]);
        consumer.shutdown();
        return answer;
    }

    private String steady(String topic, double seconds, double rate) throws Exception {
        int total = (int) (seconds * rate);
        long[] times = new long[total];
        AtomicInteger done = new AtomicInteger(), failed = new AtomicInteger();
        CountDownLatch open = new CountDownLatch(1), all = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = startConsumer(topic, (received, context) -> {
            for (MessageExt message : received) {
                long due = ByteBuffer.wrap(message.getBody()).getLong();
                if (due == 0) { // the message that created the topic
                    open.countDown();
                    continue;
                }
                int number = done.getAndIncrement();
                times[number] = System.nanoTime() - due;
                if (number == total - 1) {
                    all.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        if (!open.await(LATE_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the consumer received nothing");
        }
        double cpu = cpuSeconds();
        long begin = System.nanoTime();
        for (int sent = 0; sent < total; Thread.sleep(1)) {
            for (int due = (int) Math.min(total, (System.nanoTime() - begin) / 1e9 * rate + 1); sent < due; sent++) {
                byte[] marked = body.clone();
                ByteBuffer.wrap(marked).putLong(begin + (long) (sent / rate * 1e9));
                producer.send(new Message(topic, marked), new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                    }

                    @Override
                    public void onException(Throwable error) {
                        failed.incrementAndGet();
                    }
                });
            }
        }
        if (!all.await(LATE_S, TimeUnit.SECONDS) || failed.get() > 0) {
            throw new IllegalStateException("received " + done + ", failed " + failed);
        }
        String answer = answer(total, begin, cpu, times);
        consumer.shutdown();
        return answer;
    }

    /** A busy broker refuses some requests: they do not count as sent. */
    private static void check(long failed, long done) {
        if (failed * 100 > done) {
            throw new IllegalStateException(failed + " sends failed, and only " + done + " succeeded");
        }
    }

    private static double cpuSeconds() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
    }

    private static String answer(long messages, long begin, double cpu, long[] times) {
        double seconds = (System.nanoTime() - begin) / 1e9;
        String listed = Arrays.stream(times).mapToObj(Long::toString).collect(Collectors.joining(" "));
        return String.format(Locale.ROOT, "%d %.6f %.6f %s", messages, seconds, cpuSeconds() - cpu, listed).trim();
    }
}
